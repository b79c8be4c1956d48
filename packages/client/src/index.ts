export {
  StatefoldClient,
  typeOf,
  type Appended,
  type AppendBody,
  type Asked,
  type BatchAppended,
  type BatchBody,
  type CallOptions,
  type DecideOptions,
  type Loaded,
  type NewEvent,
} from './client.js';
export {
  ClosedError,
  isClientError,
  isRefused,
  RefusedError,
  TimeoutError,
  UnexpectedAnswerError,
  UnreachableError,
  WebhookError,
  type ClientError,
  type ErrorCode,
} from './errors.js';
export { Producer, type Produced, type ProducerOptions, type Sending } from './producer.js';
export {
  Subscription,
  type Channel,
  type CursorStore,
  type Notification,
  type SubscribeOptions,
} from './subscription.js';
export { Transport, type Received, type RetryOptions, type Sent, type TransportOptions } from './transport.js';
export { type WebSocketFactory, type WebSocketLike } from './web-socket.js';
export { verifyWebhook, type VerifyOptions, type WebhookHeaders } from './webhooks.js';
export {
  OPERATIONS,
  type BulkAnswer,
  type BulkLine,
  type Event,
  type OperationId,
  type Operations,
  type Problem,
} from './wire.js';
