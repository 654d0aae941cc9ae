"""Live sources: changing tables and topics, each kind behind one contract.

A source of files lists what there is, and the manifest remembers each file. A live source returns
what happened since a position, so only the position is remembered: it is stored in the transaction
that names the chunk it ends, and each change counts once whatever crashes between. A new kind is
one module and one line of `kinds`.
"""
