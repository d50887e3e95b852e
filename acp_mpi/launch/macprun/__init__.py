"""Starting several programs as one job: the command `macprun` and all behind it.

Stands on the rendezvous; what it starts may be any program. The standard library only.
"""
