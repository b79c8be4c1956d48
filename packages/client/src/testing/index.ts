/// <reference types="node" />
export {
  startTestService,
  TestService,
  TestServiceError,
  type EndWith,
  type TestServiceOptions,
  type TestTenant,
} from './test-service.js';
