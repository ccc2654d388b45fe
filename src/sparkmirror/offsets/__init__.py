# SPDX-License-Identifier: Apache-2.0
"""Translation of source offsets to target offsets, and positions of consumer groups."""
