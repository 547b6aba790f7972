"""What our own servers have in common: the HTTP face, which speaks like vLLM 0.32, token ids included.

A server brings a tokenizer and an engine (`server.Engine`); routes, request bodies, streams, stop strings, counts and
errors stand here, so that the client, the worker and the supervisor meet the same wire whoever serves.
"""
