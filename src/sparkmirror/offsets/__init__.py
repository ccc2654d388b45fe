# SPDX-License-Identifier: Apache-2.0
"""From offsets on the source to offsets on the target, and what consumer groups make of them."""
