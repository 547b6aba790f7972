"""A server for ONNX models on onnxruntime-genai: `python -m model_pool.servers.onnxruntime --folder DIR …`.

The folder is what the model builder makes (see `model_pool.quantize.onnx`). genai's own continuous batching needs paged
attention, which its CPU kernels lack (0.18); its static batches make a late request wait until the whole batch has
ended, at no more tokens a second. So each sequence has a generator of its own here, and one thread takes them in turn.
"""
