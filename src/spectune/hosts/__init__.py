"""Hosts: run, put, get and follow on this machine or another one; nothing about engines."""
