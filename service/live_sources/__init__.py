"""Live sources: tables and topics whose edges change, each kind behind one contract.

A source of files tells what there is, and the manifest remembers each file. A live source tells
what happened since a position, so the position is what is remembered: it is stored in the
transaction that names the chunk which it ends, and each change counts once whatever dies between.
A new kind is one module and one line of `kinds`.
"""
