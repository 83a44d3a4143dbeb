# What `txcoord store init` makes, and with these keys as good (docs/stores.md). No time to
# live: what expires is lost history. No replicas in other regions: they do not see each
# other's conditions, and txcoord refuses such a table.
resource "aws_dynamodb_table" "journal" {
  name                        = var.table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = true

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  server_side_encryption {
    enabled = true
  }

  lifecycle {
    prevent_destroy = true
  }
}
