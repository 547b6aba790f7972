"""The paced server: an OpenAI-compatible server without a model, for tests and load tests.

It echoes the last user message word by word at a set pace and stages faults on request (see `directives`). It speaks
like vLLM 0.32, token ids included, so that the client, the worker and the supervisor meet the same wire as in
earnest. Start it with `python -m model_pool.servers.paced --uds PATH --model NAME --data DIR`.
"""
