"""Programs of which it is known what one does to the other, and what contend says of them."""
