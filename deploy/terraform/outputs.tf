output "store" {
  description = "Value of --store."
  value       = "dynamodb://${aws_dynamodb_table.journal.name}?region=${data.aws_region.current.name}"
}

output "warehouse" {
  description = "Value of --warehouse."
  value       = "s3://${var.bucket}/${var.warehouse}"
}

output "policies" {
  description = "What to attach to the roles of servers, of jobs that write, and of readers."
  value = {
    service = aws_iam_policy.service.arn
    writer  = aws_iam_policy.writer.arn
    reader  = aws_iam_policy.reader.arn
  }
}
