# The opening of connections that Python makes: to the rendezvous, to the registry, and to ask a rank what it does.

cdef extern from "base/libcrypto.h" nogil:
    ctypedef struct c_libcrypto "struct libcrypto":
        pass
    bint libcrypto_open(c_libcrypto *)

cdef extern from "core/engine.h" nogil:
    enum:
        ACP_LINKS_MAC
        ACP_LINKS_ENCRYPT

cdef extern from "transport/handshake.h" nogil:
    enum:
        ACP_HANDSHAKE_VERSION
        ACP_HANDSHAKE_OLDEST
        ACP_HANDSHAKE_MORE
        ACP_HANDSHAKE_DONE
        ACP_HANDSHAKE_NO_RANDOM
    ctypedef struct acp_handshake:
        size_t out_len
        uint8_t out[76]
        uint8_t peer_role, links, peer_links
        uint32_t peer_slot
        uint64_t peer_nonce
        uint8_t out_key[32]
        uint8_t in_key[32]
        int result
        bint serves
        uint8_t hello[72]
        uint8_t challenge[76]
    int acp_handshake_client(acp_handshake *, const uint8_t *, const uint8_t *, int, uint32_t, uint32_t,
                             uint64_t, uint8_t)
    int acp_handshake_server(acp_handshake *, const uint8_t *, const uint8_t *, uint32_t, uint8_t)
    int acp_handshake_feed(acp_handshake *, const void *, size_t, size_t *)
    size_t acp_handshake_wants(const acp_handshake *)
    void acp_handshake_cancel(acp_handshake *)
    const char *acp_handshake_error(int)

cdef extern from "transport/seal.h" nogil:
    ctypedef struct c_seal "struct seal":
        pass
    c_seal *seal_new(const c_libcrypto *, uint8_t, const uint8_t *, const uint8_t *)
    void seal_free(c_seal *)
    bint seal_code(c_seal *, const void *, size_t, const void *, size_t, uint8_t *)
    bint seal_code_right(c_seal *, const void *, size_t, const void *, size_t, const uint8_t *)

HEAD_MOST = 64  # bytes of a message's head
CODE_SIZE = 16  # bytes of its code

PROTOCOL = ACP_HANDSHAKE_VERSION  # of connections
OLDEST_PROTOCOL = ACP_HANDSHAKE_OLDEST  # that is understood, too

cdef c_libcrypto libcrypto


def can_encrypt() -> bool:
    """Return whether OpenSSL's libcrypto is there, which encrypting links takes."""
    return libcrypto_open(&libcrypto)


cdef class Handshake:
    """One side of the opening of a connection: bytes in, bytes out, no sockets (handshake.h).

    Without a role it is the side that was connected to, and serves `slot`.
    """

    cdef acp_handshake hs
    cdef c_seal *seal

    def __init__(self, bytes secret not None, bytes job not None, slot: int, links: int,
                 role: int = 0, want: int = 0, nonce: int = 0) -> None:
        if len(secret) != 32 or len(job) != 16:
            raise ValueError("Handshake: a secret has 32 bytes, and a job's name 16")
        cdef const uint8_t *key = <const uint8_t *>PyBytes_AS_STRING(secret)
        cdef const uint8_t *name = <const uint8_t *>PyBytes_AS_STRING(job)
        if role:
            acp_handshake_client(&self.hs, key, name, role, slot, want, nonce, links)
        else:
            acp_handshake_server(&self.hs, key, name, slot, links)

    def __dealloc__(self) -> None:
        acp_handshake_cancel(&self.hs)
        seal_free(self.seal)

    def out(self) -> bytes:
        """Take the bytes that are to be sent now."""
        cdef bytes out = self.hs.out[:self.hs.out_len]
        self.hs.out_len = 0
        return out

    def wants(self) -> int:
        """Return how many bytes to read next: garbage is refused at its first byte; 0: the end."""
        return acp_handshake_wants(&self.hs)

    def feed(self, bytes data not None) -> None:
        """Take the bytes that were wanted."""
        cdef size_t used = 0
        acp_handshake_feed(&self.hs, PyBytes_AS_STRING(data), len(data), &used)

    @property
    def refusal(self) -> int:
        """The number of the reason for which it has failed, or 0."""
        return -self.hs.result if self.hs.result < 0 else 0

    @property
    def meaning(self) -> str:
        """The reason in words."""
        return acp_handshake_error(self.hs.result).decode()

    @property
    def peer(self) -> tuple[int, int, int]:
        """Role, slot and nonce of a client that has proved the secret."""
        return self.hs.peer_role, self.hs.peer_slot, self.hs.peer_nonce

    @property
    def links(self) -> tuple[int, int]:
        """How this side and the other one protect the connection: numbers of acp_protection."""
        return self.hs.links, self.hs.peer_links

    @property
    def versions(self) -> tuple[int, int]:
        """The newest and the oldest protocol that the other side understands."""
        cdef const uint8_t *said = &self.hs.hello[0] if self.hs.serves else &self.hs.challenge[0]
        return said[4], said[6] if said[4] >= ACP_HANDSHAKE_OLDEST else said[4]

    def code(self, bytes head not None, body: bytes | bytearray) -> bytes:
        """Return the code of the next message to the other side, under the connection's key."""
        cdef uint8_t[16] code
        cdef const uint8_t[::1] view = body
        cdef c_seal *keys = self.keys_for(head)
        cdef const void *at = &view[0] if view.shape[0] else NULL
        if not seal_code(keys, PyBytes_AS_STRING(head), len(head), at, view.shape[0], code):
            raise OSError("no code for a message: libcrypto fails")
        return code[:16]

    def is_right(self, bytes head not None, body: bytes | bytearray, bytes code not None) -> bool:
        """Return whether the next message from the other side is as it was made."""
        cdef const uint8_t[::1] view = body
        cdef c_seal *keys = self.keys_for(head)
        cdef const void *at = &view[0] if view.shape[0] else NULL
        return len(code) == CODE_SIZE and seal_code_right(
            keys, PyBytes_AS_STRING(head), len(head), at, view.shape[0], <const uint8_t *>PyBytes_AS_STRING(code))

    cdef c_seal *keys_for(self, bytes head) except NULL:
        cdef c_seal *keys = self.keys()
        if keys == NULL or len(head) > HEAD_MOST:
            raise ValueError("a handshake that is not done, or without keys, or a long head")
        return keys

    cdef c_seal *keys(self) except? NULL:
        """Return the keys of the connection, once the handshake is done; NULL: it has sums only."""
        if self.seal == NULL and self.hs.links >= ACP_LINKS_MAC and self.hs.result == ACP_HANDSHAKE_DONE:
            if self.hs.links == ACP_LINKS_ENCRYPT:
                libcrypto_open(&libcrypto)  # a millisecond, which codes alone do without
            self.seal = seal_new(&libcrypto, self.hs.links, self.hs.out_key, self.hs.in_key)
            if self.seal == NULL:
                raise OSError("no memory for a connection's keys, or no libcrypto to encrypt with")
        return self.seal
