data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  partition     = data.aws_partition.current.partition
  bucket_arn    = "arn:${local.partition}:s3:::${var.bucket}"
  folders       = concat([var.warehouse], var.tables)
  object_arns   = [for f in local.folders : "${local.bucket_arn}/${f}/*"]
  log_arns      = [for f in local.folders : "${local.bucket_arn}/${f}/*_delta_log/*"]
  own_arns      = [for f in local.folders : "${local.bucket_arn}/${f}/_txcoord/*"]
  log_store_arn = "arn:${local.partition}:dynamodb:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}:table/${var.log_store_table}"

  # Rows that are not committed, and may never be: staged parts, and copies of them.
  staged_arns = [for f in ["staged", "quarantine", "lost"] : "${local.bucket_arn}/${var.warehouse}/_txcoord/*/${f}/*"]

  # Of the whole bucket: under a condition on the prefix S3 would answer 403, not 404, to
  # those who ask for an object that is not there, and everybody does who follows a log.
  list_bucket = {
    Sid      = "List"
    Effect   = "Allow"
    Action   = ["s3:ListBucket"]
    Resource = [local.bucket_arn]
  }

  # serve and sidecar.
  service_policy = {
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid      = "FindJournal"
        Effect   = "Allow"
        Action   = ["dynamodb:DescribeTable"]
        Resource = [aws_dynamodb_table.journal.arn]
      },
      {
        Sid       = "Journal"
        Effect    = "Allow"
        Action    = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query"]
        Resource  = [aws_dynamodb_table.journal.arn]
        Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = [for c in var.catalogs : "txcoord/${c}/*"] } }
      },
      local.list_bucket,
      {
        Sid      = "Objects"
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        Resource = local.object_arns
      },
      ], var.log_store_table == "" ? [] : [
      {
        Sid      = "SparkLogStore"
        Effect   = "Allow"
        Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:Query"]
        Resource = [local.log_store_arn]
      },
    ])
  }

  # Jobs that write data files, and hand them to a server: no table's log, none of the
  # server's objects.
  writer_policy = {
    Version = "2012-10-17"
    Statement = [
      local.list_bucket,
      {
        Sid      = "DataFiles"
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
        Resource = local.object_arns
      },
      {
        Sid      = "NoLogs"
        Effect   = "Deny"
        Action   = ["s3:PutObject", "s3:DeleteObject"]
        Resource = concat(local.log_arns, local.own_arns)
      },
      {
        Sid      = "NoStagedParts"
        Effect   = "Deny"
        Action   = ["s3:GetObject"]
        Resource = local.staged_arns
      },
    ]
  }

  # Those who read tables, at the versions that manifests name.
  reader_policy = {
    Version = "2012-10-17"
    Statement = [
      local.list_bucket,
      {
        Sid      = "Read"
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = local.object_arns
      },
      {
        Sid      = "NoStagedParts"
        Effect   = "Deny"
        Action   = ["s3:GetObject"]
        Resource = local.staged_arns
      },
    ]
  }
}

resource "aws_iam_policy" "service" {
  name        = "${var.table_name}-service"
  description = "txcoord serve and txcoord sidecar"
  policy      = jsonencode(local.service_policy)
}

resource "aws_iam_policy" "writer" {
  name        = "${var.table_name}-writer"
  description = "Jobs that write data files and commit them through txcoord"
  policy      = jsonencode(local.writer_policy)
}

resource "aws_iam_policy" "reader" {
  name        = "${var.table_name}-reader"
  description = "Readers of the tables and of the manifests"
  policy      = jsonencode(local.reader_policy)
}
