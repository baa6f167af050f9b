"""systemd unit files as text: read as systemd reads them, and changed in nothing but the flags asked for. No I/O."""
