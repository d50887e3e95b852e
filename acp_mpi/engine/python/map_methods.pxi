# The most frequent calls of maps and sets, without a step in between.


cdef class MapMethods(MapCopies):  # type: MapCopies, Generic[_K, _V]
    """A map as programs use it."""

    def insert(self, key: _K, value: _V) -> bool:
        """Put a key in unless it is there, which keeps its value; return whether it was new."""
        return not self.put("insert", key, value, PUT_INSERT)

    def get(self, key: _K, default: _Buffer = None) -> _V | None if default is None else _V | _Buffer:
        """Return the value of a key, or `default`."""
        return self.look_up("get", key, default)

    def retrieve(self, key: _K, default: _Buffer = None) -> _V | None if default is None else _V | _Buffer:
        """Return the value of a key, or `default`."""
        return self.look_up("retrieve", key, default)

    def remove(self, key: _K) -> bool:
        """Take a key out; return whether it was there."""
        return self.erased("remove", key)

    def add(self, key: _K, delta: _V) -> _V:
        """Add a number to the value of a key, in one atomic command; return the new value.

        A missing key starts at 0. Integers of a type wrap; where values are objects ints do not, and
        int and float make a float. TypeError, and nothing has changed, if `delta`, or an object that
        is there, is not an int or a float.
        """
        return self.added(key, delta)

    def __getitem__(self, key: _K) -> _V:
        value = self.look_up("[]", key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: _K, value: _V) -> None:
        self.put("[]", key, value, PUT_ASSIGN)

    def __delitem__(self, key: _K) -> None:
        if not self.erased("del", key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self.holds("find", key)


cdef class SetMethods(ManyHandle):  # type: ManyHandle, Generic[_K]
    """A set as programs use it."""

    def insert(self, key: _K) -> bool:
        """Put a key in; return whether it was new."""
        return not self.put("insert", key, b"", PUT_INSERT)

    def add(self, key: _K) -> None:
        """Put a key in."""
        self.put("add", key, b"", PUT_INSERT)

    def remove(self, key: _K) -> bool:
        """Take a key out; return whether it was there."""
        return self.erased("remove", key)

    def discard(self, key: _K) -> None:
        """Take a key out if it is there."""
        self.erased("discard", key)

    def retrieve(self, key: _K) -> bool:
        """Return whether a key is there."""
        return self.holds("retrieve", key)

    def __contains__(self, key: object) -> bool:
        return self.holds("retrieve", key)
