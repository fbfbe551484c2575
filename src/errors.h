/*
 * errors.h
 *
 * The SQLSTATEs that rpq raises, in one place.  C uses the macros; PL/pgSQL writes the five characters, and a test
 * compares the scripts with this table.
 */
#ifndef RPQ_ERRORS_H
#define RPQ_ERRORS_H

#define ERRCODE_RPQ_AUTH_CHECK		MAKE_SQLSTATE('R','Q','0','0','1')	/* resource auth check failed */
#define ERRCODE_RPQ_QUOTA			MAKE_SQLSTATE('R','Q','0','0','2')	/* quota exceeded by the request alone */
#define ERRCODE_RPQ_WHOLE_MACHINE	MAKE_SQLSTATE('R','Q','0','0','3')	/* whole-machine validation failed */
#define ERRCODE_RPQ_STATUS			MAKE_SQLSTATE('R','Q','0','0','4')	/* pool status or open operation forbids it */
#define ERRCODE_RPQ_SOURCE			MAKE_SQLSTATE('R','Q','0','0','5')	/* the source has too little available */
#define ERRCODE_RPQ_IN_USE			MAKE_SQLSTATE('R','Q','0','0','6')	/* something stands against it */
#define ERRCODE_RPQ_NO_NODE			MAKE_SQLSTATE('R','Q','0','0','7')	/* no node could ever hold one replica */
#define ERRCODE_RPQ_WORKLOAD_STATUS	MAKE_SQLSTATE('R','Q','0','0','8')	/* the workload's status forbids it */
#define ERRCODE_RPQ_FENCED			MAKE_SQLSTATE('R','Q','0','0','9')	/* a copy, not adopted yet */

#endif							/* RPQ_ERRORS_H */
