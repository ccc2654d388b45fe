# SPDX-License-Identifier: Apache-2.0
"""Where topology, pipeline and state meet: one module per MM2 connector."""
