# SPDX-License-Identifier: Apache-2.0
"""Records of MM2 and Connect, encoded and decoded byte for byte."""
