# Room for the bytes of a long object until it is unpickled. What was read before serves again: memory
# that is given back and taken anew is zeroed by the page, which costs several times the copy.

DEF READING_MOST = 4194304  # kept, at most

cdef bytearray reading_room = None


cdef bytearray reading_room_take(uint64_t size):
    """Return room for `size` bytes or more, for the caller alone."""
    global reading_room
    room = reading_room
    reading_room = None  # another thread, or an object that reads another, gets its own
    if room is None or <uint64_t>len(room) < size:
        room = PyByteArray_FromStringAndSize(NULL, size)
    return room


cdef int reading_room_give(bytearray room) except -1:
    """Take room back for the next one."""
    global reading_room
    if len(room) <= READING_MOST and (reading_room is None or len(room) > len(reading_room)):
        reading_room = room
    return 0
