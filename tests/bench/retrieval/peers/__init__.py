"""Memory stores of others and this project's, driven in the same way: each in a process of its own."""
