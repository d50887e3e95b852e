# The most frequent calls of maps and sets, without a step in between.


cdef class MapMethods(MapCopies):
    """A map as programs use it."""

    def insert(self, key, value) -> bool:
        """Put a key in unless it is there, which keeps its value; return whether it was new."""
        return not self.put("insert", key, value, PUT_INSERT)

    def get(self, key, default=None) -> Any:
        """Return the value of a key, or `default`."""
        return self.look_up("get", key, default)

    def retrieve(self, key, default=None) -> Any:
        """Return the value of a key, or `default`."""
        return self.look_up("retrieve", key, default)

    def remove(self, key) -> bool:
        """Take a key out; return whether it was there."""
        return self.erased("remove", key)

    def add(self, key, delta) -> Any:
        """Add a number to the value of a key, in one atomic command; return the new value.

        A missing key starts at 0. Integers of a type wrap; where values are objects ints do not, and
        int and float make a float. TypeError, and nothing has changed, if `delta`, or an object that
        is there, is not an int or a float.
        """
        return self.added(key, delta)

    def __getitem__(self, key) -> Any:
        value = self.look_up("[]", key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value) -> None:
        self.put("[]", key, value, PUT_ASSIGN)

    def __delitem__(self, key) -> None:
        if not self.erased("del", key):
            raise KeyError(key)

    def __contains__(self, key) -> bool:
        return self.holds("find", key)


cdef class SetMethods(ManyHandle):
    """A set as programs use it."""

    def insert(self, key) -> bool:
        """Put a key in; return whether it was new."""
        return not self.put("insert", key, b"", PUT_INSERT)

    def add(self, key) -> None:
        """Put a key in."""
        self.put("add", key, b"", PUT_INSERT)

    def remove(self, key) -> bool:
        """Take a key out; return whether it was there."""
        return self.erased("remove", key)

    def discard(self, key) -> None:
        """Take a key out if it is there."""
        self.erased("discard", key)

    def retrieve(self, key) -> bool:
        """Return whether a key is there."""
        return self.holds("retrieve", key)

    def __contains__(self, key) -> bool:
        return self.holds("retrieve", key)
