"""Placement of keys on servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .keys import Key
from .servers import DEFAULT_PORT

if TYPE_CHECKING:
    from .._larder import Ring


class Hasher(Protocol):
    """Places keys on nodes. A node is `host:port`, or the path of a unix socket."""

    def add_node(self, node: str) -> None:
        """Adds a node, unless it is there."""

    def remove_node(self, node: str) -> None:
        """Removes a node. Raises `ValueError` if it is not there."""

    def get_node(self, key: Any) -> Any:
        """Returns the node of a key; `None` without nodes."""


class KetamaHash:
    """libmemcached's weighted ketama, which the clients of Larder in other languages and
    php-memcached also use. If a server joins or leaves, few keys move.

    Keys are hashed without the prefix of the client, as by libmemcached.
    """

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self._ring: Ring | None = None

    def add_node(self, node: str) -> None:
        """Adds a node, unless it is there."""
        if node not in self.nodes:
            self._place([*self.nodes, node])

    def remove_node(self, node: str) -> None:
        """Removes a node. Raises `ValueError` if it is not there."""
        if node not in self.nodes:
            raise ValueError(f"No such node {node} to remove")
        self._place([other for other in self.nodes if other != node])

    def get_node(self, key: Key) -> str | None:
        """Returns the node of a key; `None` without nodes."""
        ring, nodes = self._ring, self.nodes
        if ring is None:
            return None
        if isinstance(key, str):
            key = key.encode("utf-8", "surrogateescape")
        return nodes[ring.owner_of(key)]

    def _place(self, nodes: list[str]) -> None:
        from .._larder import Ring

        self._ring = Ring([ring_name(node) for node in nodes]) if nodes else None
        self.nodes = nodes


def ring_name(node: str) -> str:
    """Returns the name of a node on libmemcached's ring: without the default port, and with the
    port 0 for a unix socket."""
    if node.startswith("/"):
        return f"{node}:0"
    return node.removesuffix(f":{DEFAULT_PORT}")


class RendezvousHash:
    """The placement of pymemcache: highest random weight, by murmur3. A client with it finds the
    items that pymemcache has stored on the same servers.

    As in pymemcache, a key as `bytes` may have another server than the same key as `str`.
    """

    def __init__(
        self,
        nodes: list[str] | None = None,
        seed: int = 0,
        hash_function: Callable[[str, int], int] | None = None,
    ) -> None:
        self.nodes: list[str] = [] if nodes is None else nodes
        self.seed = seed
        hashed = murmur3_32 if hash_function is None else hash_function
        self.hash_function: Callable[[str], int] = lambda text: hashed(text, seed)

    def add_node(self, node: str) -> None:
        """Adds a node, unless it is there."""
        if node not in self.nodes:
            self.nodes = [*self.nodes, node]

    def remove_node(self, node: str) -> None:
        """Removes a node. Raises `ValueError` if it is not there."""
        if node not in self.nodes:
            raise ValueError(f"No such node {node} to remove")
        self.nodes = [other for other in self.nodes if other != node]

    def get_node(self, key: Any) -> str | None:
        """Returns the node of a key; `None` without nodes."""
        # Of two nodes with the same score, the name decides.
        return max(
            self.nodes,
            key=lambda node: (self.hash_function(f"{node}-{key}"), str(node)),
            default=None,
        )


def murmur3_32(data: str, seed: int = 0) -> int:
    """Returns the 32-bit MurmurHash3 of the characters of a text.

    Characters beyond one byte are hashed as by pymemcache: the fourth character of each block of
    four contributes all its bits, the others only eight.
    """
    codes = [ord(char) for char in data]
    length = len(codes)
    blocks_end = length & ~3
    state = seed
    for at in range(0, blocks_end, 4):
        first, second, third, fourth = codes[at : at + 4]
        block = first & 0xFF | (second & 0xFF) << 8 | (third & 0xFF) << 16 | fourth << 24
        state ^= _mixed(block)
        state = (state << 13 | (state & _MASK) >> 19) * 5 + 0xE6546B64
    rest = 0
    for shift, code in enumerate(codes[blocks_end:]):
        rest |= (code & 0xFF) << 8 * shift
    if length & 3:
        state ^= _mixed(rest)
    state ^= length
    state ^= (state & _MASK) >> 16
    state *= 0x85EBCA6B
    state ^= (state & _MASK) >> 13
    state *= 0xC2B2AE35
    state ^= (state & _MASK) >> 16
    return state & _MASK


_MASK = 0xFFFFFFFF


def _mixed(block: int) -> int:
    block *= 0xCC9E2D51
    return (block << 15 | (block & _MASK) >> 17) * 0x1B873593


_HASHERS: dict[str, Callable[[], Hasher]] = {
    "ketama": KetamaHash,
    "rendezvous": RendezvousHash,
}


def hasher_of(hasher: str | Callable[[], Hasher]) -> Hasher:
    """Returns a new hasher: of the name `"ketama"` or `"rendezvous"`, or of a class.

    Raises `ValueError` for other names.
    """
    if not isinstance(hasher, str):
        return hasher()
    if hasher not in _HASHERS:
        names = ", ".join(_HASHERS)
        raise ValueError(f"unknown hasher {hasher!r}, expected one of {names}, or a class")
    return _HASHERS[hasher]()
