"""Exchange with published releases, bit for bit.

This project and 1.5.7 each read and write what the other wrote; what older releases write is migrated.
"""
