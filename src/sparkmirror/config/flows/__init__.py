# SPDX-License-Identifier: Apache-2.0
"""Settings of one flow, from the layers of its file."""
