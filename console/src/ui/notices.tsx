import type { JSX } from 'preact';
import type { Notice } from '../notices';
import { Failure } from './parts';

/** Above the page, whichever it is, until each is closed. */
export const NoticeList = ({
  notices,
  onClose,
}: {
  readonly notices: readonly Notice[];
  readonly onClose: (notice: Notice) => void;
}): JSX.Element => (
  // There from the start: what comes into it is told by assistive technology.
  <div class="notices" role="status" aria-label="From pages that you left">
    {notices.map((notice, n) => (
      <div key={n} class="notice">
        {notice.told !== undefined && <p>{notice.told}</p>}
        {notice.error !== undefined && (
          <Failure error={notice.error}>
            <p>“{notice.of}” was asked for on a page that you left, and failed.</p>
          </Failure>
        )}
        <button type="button" onClick={() => onClose(notice)}>
          Close
        </button>
      </div>
    ))}
  </div>
);
