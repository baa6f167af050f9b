"""Deployments to a systemd service: observed state, wanted state, the commands still needed, and the way back."""
