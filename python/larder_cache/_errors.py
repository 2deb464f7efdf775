"""The exceptions of this package. All of them derive from `LarderError`."""


class LarderError(Exception):
    """Base class of the exceptions of this package."""


class OpenError(LarderError):
    """The cache cannot be opened. The message contains the reason and a remedy."""


class ClosedError(LarderError):
    """The cache was used after `close()`."""


class StoreError(LarderError):
    """The value could not be stored: it is too large, no memory is free, or a process that shares
    the cache was stopped while it held a lock."""


class TooLargeError(StoreError):
    """The item exceeds the size limit of the cache (`item_max`)."""


class CasError(LarderError):
    """The cache has no cas tokens: it was created with `cas=False`."""


class CounterError(LarderError):
    """The value is not an integer of 64 bits, so it cannot be incremented."""


class SerializerError(LarderError):
    """The value was written by another serializer, or cannot be decoded."""


class SignatureError(SerializerError):
    """The signature of a pickled value is missing or does not match `signing_key`."""


class UntrustedError(OpenError):
    """Other users can write to the file of the cache, or a server that is not trusted to send
    pickled values would do so."""


class LoadError(LarderError):
    """The loader in another process failed. `type_name` is the name of its exception."""

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class ServerError(LarderError):
    """The server refused a request, or its response is not valid."""


class UnavailableError(ServerError, OSError):
    """The server cannot be reached, or did not respond in time."""
