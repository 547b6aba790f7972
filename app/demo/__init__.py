"""`posthouse demo`: a stack of its own, one real question asked in three ways, everything stopped again."""


class DemoFailedError(Exception):
    """Something did not come as it should; the message says what."""
