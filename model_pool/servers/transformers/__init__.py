"""A server for PyTorch models on transformers' continuous batching: `python -m model_pool.servers.transformers …`."""
