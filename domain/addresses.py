"""Addresses of people, by which an invitation finds whom it is for."""


def spelled(address: str) -> str:
    """The one spelling of an address under which it is kept and looked for.

    Only ASCII letters are made small: Unicode knows letters whose small form is an ASCII one (the sign of the kelvin is
    a k then), so that whoever has such an address would come to the place of somebody else.
    """
    return "".join(char.lower() if char.isascii() else char for char in address)
