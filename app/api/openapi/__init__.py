"""The OpenAPI document: made from the very models that check requests, so that it cannot drift from them."""
