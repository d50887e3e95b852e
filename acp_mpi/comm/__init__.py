"""Messages and collectives: what ranks say to each other, beside the memory that they share.

Whatever is built on messages may live here. It knows the engine and `rma`; neither knows it.
"""
