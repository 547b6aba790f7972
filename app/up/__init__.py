"""The whole stack on one machine: Redis, API, workers and Flower under one supervisor (`posthouse up`)."""
