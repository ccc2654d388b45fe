# SPDX-License-Identifier: Apache-2.0
"""MM2's record formats, byte for byte, in both directions."""
