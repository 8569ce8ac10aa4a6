"""The storm laboratory from outside: a broker that is up or down, storms over it, and what is left of them."""
