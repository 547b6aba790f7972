"""How many tokens a prompt has, counted in the API with the model's own tokenizer and chat template."""
