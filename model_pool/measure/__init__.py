"""Engines measured with the demo model, one after the other: `python -m model_pool.measure`."""
