"""Answers that were given before: key, policy, lifetime, two levels of storage, and a breaker around the outer one.

`response_cache.ResponseCache` is what callers use. This room imports nothing of ours; the Redis client, clocks,
randomness and observers come in by construction.
"""
