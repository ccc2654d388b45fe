# SPDX-License-Identifier: Apache-2.0
"""Generated and prepared input."""
