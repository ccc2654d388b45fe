# SPDX-License-Identifier: Apache-2.0
"""Connect's REST API over a worker: HTTP and JSON end here."""
