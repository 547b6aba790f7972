"""Signed webhooks: who may receive them, what is sent, and the record of every delivery.

Standard Webhooks on the wire. Deliveries are records in Redis with a due time of their own; the worker that sends
them is `workers.deliveries`.
"""
