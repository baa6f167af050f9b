"""The words of spectune: frozen values, ports and errors. Nothing here reads, writes, waits or draws random numbers."""
