"""The built-in tools, one file each, with their descriptions in `.md` files beside them."""
