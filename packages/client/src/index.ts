export {
  StatefoldClient,
  typeOf,
  type Appended,
  type AppendBody,
  type BatchAppended,
  type BatchBody,
  type DecideOptions,
  type SqlOptions,
  type Loaded,
  type NewEvent,
  type TransactionAppended,
  type TransactionBody,
} from './client.js';
export {
  WebhookEndpoints,
  type ChangedWebhookEndpoint,
  type NewEndpoint,
  type EndpointChange,
  type Resent,
} from './endpoints.js';
export { EventTypes, type JsonSchema } from './event-types.js';
export { SqlAccounts } from './sql-accounts.js';
export {
  ClosedError,
  isClientError,
  isRefused,
  NotStoredError,
  RefusedError,
  TimeoutError,
  UnexpectedAnswerError,
  UnreachableError,
  WebhookError,
  type ClientError,
  type ErrorCode,
  type NotStored,
} from './errors.js';
export { EventFeed, type FeedPage, type FeedQuery } from './feed.js';
export { type Channel, type FeedFilters } from './followed.js';
export { Producer, type Produced, type ProducerOptions, type Sending } from './producer.js';
export {
  FeedSubscription,
  Subscription,
  type CursorStore,
  type ErasureOptions,
  type FeedSubscribeOptions,
  type FollowOptions,
  type Notification,
  type PositionedEvent,
  type SubscribeOptions,
  type TicketRequest,
} from './subscription.js';
export { Transport, type Received, type RetryOptions, type Sent, type TransportOptions } from './transport.js';
export { type Asked, type CallOptions } from './requests.js';
export { type WebSocketFactory, type WebSocketLike } from './live.js';
export { verifyWebhook, type VerifyOptions, type WebhookHeaders } from './webhooks.js';
export {
  OPERATIONS,
  type BulkAnswer,
  type BulkLine,
  type Event,
  type FeedErasure,
  type FeedEvent,
  type NewWebhookEndpoint,
  type OperationId,
  type Operations,
  type ParkedMessage,
  type Problem,
  type WebhookAttempt,
  type WebhookEndpoint,
} from './wire.js';
