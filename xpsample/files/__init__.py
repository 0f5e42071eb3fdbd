"""Arrays by path, an identity and a digest, kept so that nothing is lost: atomic, locked, one format."""
