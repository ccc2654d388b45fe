# SPDX-License-Identifier: Apache-2.0
"""Every configuration key, declared once."""
