# SPDX-License-Identifier: Apache-2.0
"""A Connect worker: connectors by name, and what may be asked of them."""
