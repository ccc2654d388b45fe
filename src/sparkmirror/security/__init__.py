# SPDX-License-Identifier: Apache-2.0
"""Authentication and TLS, the same for every connection."""
