locals {
  # A version's file has twenty digits; no table has ten billion versions. Checkpoints,
  # checksums and what engines keep beside them have other names. Keys cannot be put under
  # a condition where a multipart upload begins, only where it ends.
  bucket_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "CommitsOnlyIfAbsent"
        Effect    = "Deny"
        Principal = "*"
        Action    = ["s3:PutObject"]
        Resource  = [for f in local.folders : "${local.bucket_arn}/${f}/*_delta_log/0000000000??????????.json"]
        Condition = {
          Null = { "s3:if-none-match" = "true" }
          Bool = { "s3:ObjectCreationOperation" = "true" }
        }
      },
    ]
  }
}

# A bucket has one policy: merge this statement into the one that yours has.
resource "aws_s3_bucket_policy" "commits" {
  count  = var.refuse_unconditional_commits ? 1 : 0
  bucket = var.bucket
  policy = jsonencode(local.bucket_policy)
}
