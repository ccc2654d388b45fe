# SPDX-License-Identifier: Apache-2.0
"""Independent clients, and load."""
