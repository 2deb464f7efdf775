"""The exceptions of the clients. Their names are those of pymemcache.

Errors of the operating system, such as `ConnectionRefusedError` and `TimeoutError`, are raised as
they are. All of them are `OSError`s.
"""

from __future__ import annotations

from .._errors import LarderError, ServerError, UnavailableError


class MemcacheError(LarderError):
    """Base class of the exceptions of this module."""


class MemcacheClientError(MemcacheError):
    """The server refused the arguments of a request (`CLIENT_ERROR`)."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not have the command (`ERROR`)."""


class MemcacheIllegalInputError(MemcacheClientError, ValueError):
    """A key, value or number is not legal. Nothing was sent."""


class MemcacheServerError(MemcacheError, ServerError):
    """The server could not execute a request (`SERVER_ERROR`)."""


class MemcacheUnknownError(MemcacheError, ServerError):
    """The response of the server is not valid. The client has closed the connection."""


class MemcacheUnexpectedCloseError(MemcacheServerError, UnavailableError):
    """The server closed the connection before its response was complete."""
