"""One line per function and resource, for review: only what the code of that function calls, so that a function that
is taken over can do nothing else. `Content/content/*` are the objects under a prefix of the bucket."""

READ = {"dynamodb:GetItem", "dynamodb:BatchGetItem"}
WRITE = {"dynamodb:PutItem", "dynamodb:UpdateItem"}  # TransactWriteItems needs no name of its own
BATCH = {"dynamodb:BatchWriteItem"}  # what finds a skill, before it is published
QUERY = {"dynamodb:Query"}
CHECK = {"dynamodb:ConditionCheckItem"}  # what publishes asks the blocklist in the same transaction
CACHE = {"s3:GetObject", "s3:PutObject"}  # of repositories: those who ask GitHub about skills share what they learn
# Asked by the event source mapping, with the function's role.
RECEIVE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}

TRACE = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
WITHOUT_RESOURCES = TRACE  # services that know no resources
# What SAM would give by managed policies, for functions with a role of their own.
OWN_ROLE = {"Logs": {"logs:CreateLogStream", "logs:PutLogEvents"}, "*": TRACE}

CONSUMING = {  # both functions that scan what is submitted
    "Table": READ | QUERY | WRITE | BATCH | CHECK,  # versions and history of what resembles blocked content
    "Content": {"s3:ListBucket"},  # to be told that something is missing
    "Content/content/*": {"s3:GetObject", "s3:PutObject"},
    "Content/received/*": {"s3:GetObject", "s3:PutObject"},
    "Content/artifact/*": {"s3:PutObject"},  # of a new version, before it is published
    "ReceiptSecret": {"secretsmanager:GetSecretValue"},  # it publishes, so it signs receipts
    "Content/github/*": CACHE,
    "Content/dead-letters/*": {"s3:PutObject"},
    "WebhookSecrets": {"secretsmanager:GetSecretValue"},
    "Secret": {"secretsmanager:GetSecretValue"},  # GitHub's token
    "GitHubTokens": {"secretsmanager:GetSecretValue"},
    # The chosen model alone; an inference profile spreads its calls over regions.
    "arn:${AWS::Partition}:bedrock:*::foundation-model/${JudgeModelId}": {"bedrock:InvokeModel"},
    "arn:${AWS::Partition}:bedrock:*::foundation-model/${JudgeFoundationModelId}": {"bedrock:InvokeModel"},
    "arn:${AWS::Partition}:bedrock:*:${AWS::AccountId}:inference-profile/${JudgeModelId}": {"bedrock:InvokeModel"},
    **OWN_ROLE,
}
FROM_QUEUE = RECEIVE | {"sqs:ChangeMessageVisibility", "sqs:SendMessage"}

ALLOWED: dict[str, dict[str, set[str]]] = {
    "SubmissionsApi": {
        "Table": READ | QUERY | WRITE,
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Table/index/due": QUERY,  # what no worker holds, for the queue's health
        "Content": {"s3:ListBucket"},  # health: HeadBucket
        "Content/received/*": {"s3:PutObject"},  # never what is published
        "Content/github/*": CACHE,
        "SubmissionQueue": {"sqs:SendMessage", "sqs:GetQueueAttributes"},  # the latter for health
        "Secret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "SkillsApi": {
        "Table": READ | QUERY | WRITE,
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Table/index/due": QUERY,  # trending skills
        "Content/content/*": {"s3:GetObject"},
        "Content/artifact/*": {"s3:GetObject"},  # also by signed addresses
        "Secret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "Registry": {  # no queue, and of the bucket only what is published
        "Table": READ | QUERY | {"dynamodb:PutItem"},  # installs
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Content/artifact/*": {"s3:GetObject"},
        "Secret": {"secretsmanager:GetSecretValue"},
    },
    "AdminApi": {
        # dead letters that are settled, entries of the blocklist, skills under a bare slug
        "Table": READ | QUERY | WRITE | BATCH | CHECK | {"dynamodb:DeleteItem"},
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Table/index/due": QUERY,
        "Content": {"s3:ListBucket"},  # to be told that something is missing
        "Content/content/*": {
            "s3:GetObject",
            "s3:PutObject",
        },  # what is approved is published from the stored bytes; rescans
        "Content/received/*": {"s3:GetObject"},
        "Content/artifact/*": {"s3:PutObject"},  # of a new version, before it is published
        "ReceiptSecret": {"secretsmanager:GetSecretValue"},  # it publishes, so it signs receipts
        "SubmissionQueue": {"sqs:SendMessage", "sqs:GetQueueAttributes"},  # the latter for its depth
        "WebhookSecrets": {"secretsmanager:GetSecretValue"},
        "Secret": {"secretsmanager:GetSecretValue"},
        "AdminTokens": {"secretsmanager:GetSecretValue"},
    },
    "OwnerApi": {
        "Table": READ | QUERY | WRITE | CHECK | {"dynamodb:DeleteItem"},  # challenges that were met
        "Content/content/*": {"s3:GetObject"},  # rescans
        "SubmissionQueue": {"sqs:SendMessage"},  # what an owner reopens
        "Secret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "OwnerPages": {
        "Table": READ | QUERY | WRITE | CHECK | {"dynamodb:DeleteItem"},  # challenges that were met
        "Content/content/*": {"s3:GetObject"},  # evidence, rescans
        "Content/received/*": {"s3:GetObject"},
        "SubmissionQueue": {"sqs:SendMessage"},
        "Secret": {"secretsmanager:GetSecretValue"},
        "OwnerSessionSecret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "Pages": {
        "Table": READ | QUERY | WRITE,  # the form of /submit accepts like the API does
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Table/index/due": QUERY,  # trending skills
        "Content/content/*": {"s3:GetObject"},
        "Content/received/*": {"s3:GetObject", "s3:PutObject"},  # never what is published
        "Content/github/*": CACHE,
        "SubmissionQueue": {"sqs:SendMessage"},
        "Secret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "AdminPages": {
        "Table": READ | QUERY | WRITE | BATCH | CHECK | {"dynamodb:DeleteItem"},  # dead letters that are settled
        "Table/index/list": QUERY,
        "Table/index/state": QUERY,
        "Table/index/due": QUERY,
        "Content": {"s3:ListBucket"},  # to be told that something is missing
        "Content/content/*": {"s3:GetObject", "s3:PutObject"},
        "Content/received/*": {"s3:GetObject"},
        "Content/artifact/*": {"s3:PutObject"},  # of a new version, before it is published
        "ReceiptSecret": {"secretsmanager:GetSecretValue"},  # it publishes, so it signs receipts
        "SubmissionQueue": {"sqs:SendMessage"},
        "WebhookSecrets": {"secretsmanager:GetSecretValue"},
        "Secret": {"secretsmanager:GetSecretValue"},
        "AdminTokens": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},  # to say that there is none
        "SessionSecret": {"secretsmanager:GetSecretValue"},  # no other function: it is enough to sign a session
    },
    "Webhooks": {
        "Table": READ | WRITE,
        "Table/index/due": QUERY,
        "Content/content/*": {"s3:GetObject"},
        "WebhookSecrets": {"secretsmanager:GetSecretValue"},
        "Secret": {"secretsmanager:GetSecretValue"},
    },
    "Consumer": {
        **CONSUMING,
        "SubmissionQueue": FROM_QUEUE,
        "LongScanQueue": {"sqs:SendMessage"},  # what takes long
    },
    "LongScans": {**CONSUMING, "LongScanQueue": FROM_QUEUE},
    "DeadLettersFunction": {
        "Table": {"dynamodb:GetItem"} | WRITE,
        "Content/dead-letters/*": {"s3:PutObject"},
        "DeadLetters": RECEIVE,
        **OWN_ROLE,
    },
    "StuckScan": {
        "Table": READ | WRITE | BATCH | CHECK,
        "Content": {"s3:ListBucket"},  # to be told that something is missing
        "Content/content/*": {"s3:GetObject", "s3:PutObject"},
        "Content/received/*": {"s3:GetObject"},
        "Content/artifact/*": {"s3:PutObject"},  # of a new version, before it is published
        "ReceiptSecret": {"secretsmanager:GetSecretValue"},  # it publishes, so it signs receipts
        "Table/index/due": QUERY,
        "Table/index/list": QUERY,  # dead letters and the oldest active, for the metrics of every tick
        "Table/index/state": QUERY,
        "SubmissionQueue": {"sqs:SendMessage"},
    },
    "Notifications": {
        "Table": READ | {"dynamodb:PutItem"},
        "Table/index/due": QUERY,
        "NotificationQueue": RECEIVE | {"sqs:SendMessage"},
        "FailedSchedules": {"sqs:SendMessage"},
        **OWN_ROLE,
        "Secret": {"secretsmanager:GetSecretValue"},  # the key that secrets of webhooks are derived from
    },
    "Sweep": {
        "Table": READ | QUERY | WRITE,
        "Table/index/due": QUERY,
        "Table/index/list": QUERY,  # skills that an older release published
        "Secret": {"secretsmanager:GetSecretValue"},
        "GitHubTokens": {"secretsmanager:GetSecretValue"},
    },
    "Rescan": {
        "Table": READ | QUERY | WRITE,
        "Table/index/list": QUERY,
        "Content/content/*": {"s3:GetObject"},
    },
}
# SAM gives these to the roles it makes: of functions (the second where Tracing is Active), and of CodeDeploy.
ADDED_BY_SAM = {"AWSLambdaBasicExecutionRole", "AWSXRayDaemonWriteAccess", "AWSCodeDeployRoleForLambda"}
