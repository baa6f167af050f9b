"""Tasks whose answers are right or wrong: a built-in set, the user's own checker, and the sandbox that code runs in."""
