variable "table_name" {
  description = "Name of the DynamoDB table that holds the journals."
  type        = string
  default     = "txcoord"
}

variable "catalogs" {
  description = "Catalogs whose journals are in the table, by their names (--catalog)."
  type        = list(string)
  default     = ["default"]
}

variable "bucket" {
  description = "Name of the bucket, which is there already."
  type        = string
}

variable "warehouse" {
  description = "Folder of the warehouse in the bucket (--warehouse s3://BUCKET/FOLDER). Tables may lie below it."
  type        = string
  default     = "warehouse"
}

variable "tables" {
  description = "Further folders of the bucket below which tables may lie (--allow)."
  type        = list(string)
  default     = []
}

variable "log_store_table" {
  description = "Name of Spark's S3DynamoDBLogStore table (--log-store). Empty: no table is of mode delta-storage."
  type        = string
  default     = ""
}

variable "point_in_time_recovery" {
  description = "Keep backups of the table. They come back as a new table, and never under a running catalog (docs/stores.md)."
  type        = bool
  default     = true
}

variable "refuse_unconditional_commits" {
  description = "Have S3 refuse commit files that are not put if absent. README.md says whom that keeps from writing."
  type        = bool
  default     = true
}
